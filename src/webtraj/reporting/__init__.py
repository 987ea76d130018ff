"""Reports on the results of rollouts, over iterations and compared: HTML and charts."""
