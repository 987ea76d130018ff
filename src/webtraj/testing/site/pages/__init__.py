"""The pages of the fixture site, a module for each part of it."""
