"""Reports on the tests of a run: a page, files, annotations, and race coverage."""
