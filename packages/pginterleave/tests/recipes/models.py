"""The models stand in the files of the recipes, whose tables a test database has."""
