"""People's own rules, from a YAML or JSON file: read, checked, and asked of a run.

    document    text to values that know their line
    expression  one safe expression
    forms       the three forms of a rule, and what is wrong with one
    facts       what a run offers to expressions
    evaluate    a rule and facts: whether it holds
    check       a rule and a run to a finding

`docs/own-rules.md` is the page for people.
"""
