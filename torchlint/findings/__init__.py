"""What is done with findings: suppressions, the baseline, fingerprints, joined causes, conflicts of fixes."""
