"""From episodes to a better policy: samples, replay buffer, exports, trainers."""
