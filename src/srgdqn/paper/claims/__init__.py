"""The paper's claims C1 to C12: each one's statistic, and the rules by which it holds, fails, is undecided or moot.

Reports print the claims' version (`srgdqn.runs.provenance`), so that anybody can see that nothing was changed after the
confirmatory run.
"""
