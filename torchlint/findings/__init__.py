"""Diagnostics, and what is done with them: suppressions, baseline, fingerprints, joined causes, conflicts of fixes."""
