"""Diverse dictionary learning: its figures and tables, and what they leave out.

Yujia Zheng, Zijian Li, Shunxing Fan, Andrew Gordon Wilson and Kun Zhang, *Diverse Dictionary Learning*, International
Conference on Learning Representations (ICLR), 2026, https://arxiv.org/abs/2604.17568
"""
