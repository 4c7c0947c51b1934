"""The default method of `recollect stream` and the adapters."""

from __future__ import annotations

from recollect.methods.derpp import DERpp

# Compared with others in docs/evidence-single-pass.md; `python -m tools.defaults` makes the tables.
USUAL = DERpp(alpha=0.1, beta=1.0)
# Earlier defaults: saved states that were created with one of them continue with it.
FORMERLY = (DERpp(alpha=0.5, beta=0.5),)
