"""Every strategy that counts a hit and records its visit, right and wrong.

Each file has one function `record(key, visit)`, which returns the ShortUrl or raises
ShortUrl.DoesNotExist. Applications call following.follow().
"""
