"""The picture of a schedule: what is to be seen of its steps, and how it is drawn.

`recorded` makes plain data of a schedule. `wording`, `history`, `conflicts` and `sentences` derive
facts from them and draw nothing. `cells` knows what stands in each row, and `layout` where it goes,
by its `grid`; the styles are in `static/`. `html_report` is a page with the pictures of many tests.

As an app of Django it serves its styles and the script for stepping.
"""
