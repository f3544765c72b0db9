"""The paper's claims C1 to C12: each one's statistic, and the rules by which it holds, fails or stays undecided.

Reports print the claims' version (`srgdqn.runs.provenance`), so that anybody can see that nothing was changed after the
confirmatory run.
"""

from srgdqn.paper.claims.rules import Judgement
from srgdqn.paper.claims.statements import CLAIMS, Claim, judge

__all__ = ["CLAIMS", "Claim", "Judgement", "judge"]
