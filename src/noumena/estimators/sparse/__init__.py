"""Latents that are sparse themselves: components, flows, spikes and mixtures of degenerate Gaussians."""
