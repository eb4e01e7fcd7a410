"""Every strategy that spends a quota on a create, right and wrong.

Each file has one function `spend(spender, create, *, limit, period, amount)`. It calls `create` and
returns its result. It raises QuotaExceeded when `amount` would raise the usage of
`spender` in the current period above `limit`. Applications call quotas.spend().
"""
