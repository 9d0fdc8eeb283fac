// Navigable graphs (HNSW): search, and building.
#pragma once

#include <cstdint>
#include <vector>

#include "vectors/best_rows.hpp"
#include "vectors/stored_vectors.hpp"

namespace lance {

// One level of a graph. A node is the number of a row in its partition.
struct GraphLevel {
  std::vector<uint32_t> nodes;      // ascending; on level 0 all nodes
  std::vector<uint32_t> starts;     // the first neighbour of each node, and the end of the last node's
  std::vector<uint32_t> neighbors;  // nodes of this level
};

class Graph {
 public:
  // Throws CorruptData unless level 0 has all nodes, and every number is a node.
  Graph(size_t num_nodes, uint32_t entry, std::vector<GraphLevel> levels);

  size_t num_nodes() const { return num_nodes_; }
  uint32_t entry() const { return entry_; }
  const std::vector<GraphLevel>& levels() const { return levels_; }
  size_t num_bytes() const;

  // Offers the nearest allowed rows that a walk with a beam of `width` rows finds. If few rows are allowed, compares
  // all of them instead.
  void search(BestRows& best, const CodedRows& rows, size_t width, const StoredVectors& vectors) const;

 private:
  size_t num_nodes_;
  uint32_t entry_;
  std::vector<GraphLevel> levels_;
};

struct GraphOptions {
  size_t max_neighbors;  // of a node on upper levels; level 0 has twice as many
  size_t beam_width;     // of the walk that looks for the neighbours of a new node
  size_t max_levels;
};

// Builds a graph over all vectors. The same vectors give the same graph.
Graph build_graph(ComparableVectors& vectors, size_t num_vectors, const GraphOptions& options);

}  // namespace lance
