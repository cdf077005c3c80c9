"""What a run has shown: facts from the ledger, and their renderings as Markdown, HTML, JSON and files."""
