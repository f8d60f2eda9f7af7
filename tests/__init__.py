"""The tests of Intarsia, and what they stand on: unlike files, an oracle, an exact comparison."""
