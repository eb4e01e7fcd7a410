"""Every strategy that resolves a key and counts the hit, right and wrong, in the article's order.

Each file has one function `resolve(key)`, which returns the ShortUrl or raises
ShortUrl.DoesNotExist. Applications call following.follow().
"""
