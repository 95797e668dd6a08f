"""The pages of a cluster's jobs: plain HTML and SVG, made when they are asked for."""
