"""One folder a family of tools, one module or package a recording format in it."""
