"""The picture of a schedule: what is to be seen of its steps, and how it is drawn.

`wording`, `spans` and `conflicts` derive facts from recorded steps and draw nothing; `layout`
knows where each of them goes, and the template `lab/picture.svg` what it looks like.
"""
