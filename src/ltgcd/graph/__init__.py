"""Relations between vectors: whitening, nearest neighbours, density, peaks, communities, k-means, matching."""
