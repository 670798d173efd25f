"""Noise: exact samplers, calibration, thresholds, the release that opens the seal, read-outs."""
