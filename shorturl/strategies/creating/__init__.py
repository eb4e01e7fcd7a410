"""Every strategy that creates a short URL, right and wrong, in the article's order.

Each file has one function `create(target_url, *, keys, **values)`, which tries the candidate keys
in turn and returns the new ShortUrl. `values` are the other columns of the new row by name, such as
`owner_id`. The INSERT itself sets them, so no reader sees a link without its owner. Applications
call operations.create().
"""
