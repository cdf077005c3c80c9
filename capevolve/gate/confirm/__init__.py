"""Mode `confirm`: an accepted edit is a claim with a stated error rate."""
