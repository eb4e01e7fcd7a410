"""The picture of a schedule: what is to be seen of its steps, and how it is drawn.

`recorded` makes plain data of a schedule, with `column_values`; `wording`, `spans` and `conflicts`
derive facts from them and draw nothing; `layout` knows where each of them goes, and `svg` what it
looks like, with the styles in `static/`. `report` is a page with the pictures of many tests.

As an app of Django it serves its styles and the script for stepping.
"""
