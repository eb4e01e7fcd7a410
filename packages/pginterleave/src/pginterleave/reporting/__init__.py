"""Reports on the tests of a run: a page, annotations, and race coverage."""
