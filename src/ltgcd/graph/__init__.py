"""What vectors say of each other: whitening, neighbours, density, peaks, communities, k-means, matching."""
