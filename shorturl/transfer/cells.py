"""The cells of CSV files that a spreadsheet opens."""

# A spreadsheet computes a cell that begins like this, so an apostrophe is put before the cell, and
# before another apostrophe.
FORMULA_STARTS = ("=", "+", "-", "@", "'")


def without_formula(value: object) -> object:
    return f"'{value}" if str(value).startswith(FORMULA_STARTS) else value
