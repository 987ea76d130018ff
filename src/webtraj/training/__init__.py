"""Training on recorded episodes: samples, replay buffer, exports, trainers."""
