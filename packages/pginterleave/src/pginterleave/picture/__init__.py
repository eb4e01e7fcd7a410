"""The picture of a schedule: which facts it shows of the steps, and how they are drawn.

`recorded` turns a schedule into plain data. `wording`, `history`, `conflicts` and `sentences`
derive facts from the data and draw nothing, and `taking_part` leaves steps out. `cells` puts the
facts into rows, `grid` measures the rows and lanes, and `layout` draws them. `context` gives the
drawings and the table of the steps to the templates; the styles and the script for stepping are in
`static/`.

As a Django app, this package has the templates, the styles and the script.
"""
