"""AST checks that hold a serving engine to its rules. Imports nothing of `engine`, and no torch."""

__version__ = "0.1.0"
