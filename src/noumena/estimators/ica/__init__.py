"""Independent component analysis: whitening, contrasts, rotations; rows that fit in memory and streams that do not."""
