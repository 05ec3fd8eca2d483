"""Mechanistic independence: slots that overlap.

Stefan Matthes, Zhiwei Han and Hao Shen, *Mechanistic Independence: A Principle for Identifiable Disentangled
Representations*, International Conference on Learning Representations (ICLR), 2026, https://arxiv.org/abs/2509.22196
"""
