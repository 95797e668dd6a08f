"""The one engine of what-if: the dependency graph, its critical path, its replay."""
