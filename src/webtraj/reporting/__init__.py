"""Reports of what rollouts came to, over iterations and side by side: HTML and pictures."""
