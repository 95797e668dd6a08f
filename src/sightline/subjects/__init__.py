"""One folder a subject: its facts, analyses, rules and panels. Subjects never import each other."""
