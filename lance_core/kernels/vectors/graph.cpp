#include "vectors/graph.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>

#include "base/common.hpp"

namespace lance {

namespace {

// If fewer than one of this many rows is allowed, a walk meets few of them. Comparing all allowed rows is faster then.
constexpr size_t kFewAllowed = 10;

struct Candidate {
  float distance;
  uint32_t node;
};

// Order of candidates when a graph is searched.
struct LowestFirst {
  bool operator()(const Candidate& one, const Candidate& other) const {
    return one.distance < other.distance || (one.distance == other.distance && one.node < other.node);
  }
};

// Order of candidates when a graph is built. Of equal vectors, a new node gets the newest ones as neighbours, and they
// link back to it. If it got the oldest ones, their places would be taken, and no node would lead to the new one.
struct NewestFirst {
  bool operator()(const Candidate& one, const Candidate& other) const {
    return one.distance < other.distance || (one.distance == other.distance && one.node > other.node);
  }
};

struct Nodes {
  const uint32_t* begin_ = nullptr;
  const uint32_t* end_ = nullptr;
  const uint32_t* begin() const { return begin_; }
  const uint32_t* end() const { return end_; }
};

// Nodes that a walk has seen. A mark is the number of its walk, so that the next walk need not clear the marks.
class Seen {
 public:
  explicit Seen(size_t num_nodes) : marks_(num_nodes, 0) {}
  void next_walk() { ++walk_; }
  bool add(uint32_t node) {
    if (marks_[node] == walk_) return false;
    marks_[node] = walk_;
    return true;
  }

 private:
  std::vector<uint32_t> marks_;
  uint32_t walk_ = 0;
};

// Moves from `at` to ever nearer neighbours.
template <class Order, class NeighborsOf>
Candidate descend(Candidate at, const StoredVectors& vectors, NeighborsOf neighbors_of) {
  Order is_before;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t node : neighbors_of(at.node)) {
      Candidate next{vectors.distance(node), node};
      if (is_before(next, at)) {
        at = next;
        moved = true;
      }
    }
  }
  return at;
}

// Returns the nearest nodes that a walk from `entry` finds, at most `width`, in no particular order. Nodes that `keep`
// refuses are walked over.
template <class Order, class NeighborsOf, class Keep>
std::vector<Candidate> walk(Candidate entry, size_t width, const StoredVectors& vectors, Seen& seen,
                            NeighborsOf neighbors_of, Keep keep) {
  Order is_before;
  auto is_after = [](const Candidate& one, const Candidate& other) { return Order()(other, one); };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(is_after)> open(is_after);
  std::vector<Candidate> found;  // a heap with the farthest node first
  seen.next_walk();
  auto visit = [&](Candidate next) {
    open.push(next);
    if (!keep(next)) return;
    found.push_back(next);
    std::push_heap(found.begin(), found.end(), is_before);
    if (found.size() > width) {
      std::pop_heap(found.begin(), found.end(), is_before);
      found.pop_back();
    }
  };
  seen.add(entry.node);
  visit(entry);
  while (!open.empty()) {
    Candidate at = open.top();
    if (found.size() >= width && is_before(found.front(), at)) break;
    open.pop();
    for (uint32_t node : neighbors_of(at.node)) {
      if (!seen.add(node)) continue;
      Candidate next{vectors.distance(node), node};
      if (found.size() < width || is_before(next, found.front())) visit(next);
    }
  }
  return found;
}

// Graph under construction: the neighbours of each node on each of its levels, with their distances.
class GrowingGraph {
  // The neighbours of a node without their distances.
  struct NodeView {
    const std::vector<Candidate>& list;
    struct Iterator {
      const Candidate* at;
      uint32_t operator*() const { return at->node; }
      Iterator& operator++() {
        ++at;
        return *this;
      }
      bool operator!=(const Iterator& other) const { return at != other.at; }
    };
    Iterator begin() const { return {list.data()}; }
    Iterator end() const { return {list.data() + list.size()}; }
  };

  auto nodes_on(size_t level) const {
    return [this, level](uint32_t node) { return NodeView{neighbors_[node][level]}; };
  }

 public:
  GrowingGraph(ComparableVectors& vectors, size_t num_vectors, const GraphOptions& options)
      : vectors_(vectors), options_(options), neighbors_(num_vectors), seen_(num_vectors) {
    std::mt19937_64 random(42);
    double scale = 1 / std::log(static_cast<double>(std::max<size_t>(options.max_neighbors, 2)));
    for (auto& levels : neighbors_) {
      double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
      levels.resize(1 + std::min(static_cast<size_t>(-std::log(uniform) * scale), options.max_levels - 1));
    }
  }

  void insert(uint32_t node) {
    if (node == 0) return;
    vectors_.set_query(node);
    size_t height = neighbors_[node].size();
    Candidate at{vectors_.distance(entry_), entry_};
    size_t top = neighbors_[entry_].size();
    for (size_t level = top; level-- > height;) at = descend<NewestFirst>(at, vectors_, nodes_on(level));
    std::vector<std::vector<Candidate>> chosen(std::min(height, top));
    for (size_t level = chosen.size(); level-- > 0;) {
      vectors_.set_query(node);  // `choose` changed it
      std::vector<Candidate> near = walk<NewestFirst>(at, options_.beam_width, vectors_, seen_, nodes_on(level),
                                                      [](const Candidate&) { return true; });
      std::sort(near.begin(), near.end(), NewestFirst());
      at = near.front();
      chosen[level] = choose(near, options_.max_neighbors);
    }
    for (size_t level = 0; level < chosen.size(); ++level) {
      neighbors_[node][level] = chosen[level];
      for (Candidate neighbor : chosen[level]) link(neighbor, node, level);
    }
    if (height > top) entry_ = node;
  }

  Graph finish() const {
    std::vector<GraphLevel> levels(neighbors_[entry_].size());
    for (size_t number = 0; number < levels.size(); ++number) {
      GraphLevel& level = levels[number];
      level.starts.push_back(0);
      for (size_t node = 0; node < neighbors_.size(); ++node) {
        if (neighbors_[node].size() <= number) continue;
        level.nodes.push_back(static_cast<uint32_t>(node));
        for (const Candidate& each : neighbors_[node][number]) level.neighbors.push_back(each.node);
        level.starts.push_back(static_cast<uint32_t>(level.neighbors.size()));
      }
    }
    return Graph(neighbors_.size(), entry_, std::move(levels));
  }

 private:
  // Chooses neighbours in many directions: a node is left out if a chosen node is as near to it as the new node is.
  // Changes the query of the vectors.
  std::vector<Candidate> choose(const std::vector<Candidate>& sorted, size_t count) {
    std::vector<Candidate> chosen;
    for (const Candidate& next : sorted) {
      if (chosen.size() == count) break;
      vectors_.set_query(next.node);
      bool is_apart = std::all_of(chosen.begin(), chosen.end(), [&](const Candidate& other) {
        return vectors_.distance(other.node) > next.distance;
      });
      if (is_apart) chosen.push_back(next);
    }
    // Vectors in dense groups leave places free. They go to the nearest of the rest, which keeps groups connected.
    for (const Candidate& next : sorted) {
      if (chosen.size() >= count) break;
      if (std::none_of(chosen.begin(), chosen.end(), [&](const Candidate& other) { return other.node == next.node; })) {
        chosen.push_back(next);
      }
    }
    return chosen;
  }

  void link(Candidate from, uint32_t to, size_t level) {
    std::vector<Candidate>& list = neighbors_[from.node][level];
    list.push_back({from.distance, to});
    size_t most = level == 0 ? 2 * options_.max_neighbors : options_.max_neighbors;
    if (list.size() <= most) return;
    std::sort(list.begin(), list.end(), NewestFirst());
    list = choose(list, most);
  }

  ComparableVectors& vectors_;
  const GraphOptions& options_;
  std::vector<std::vector<std::vector<Candidate>>> neighbors_;
  Seen seen_;
  uint32_t entry_ = 0;
};

}  // namespace

Graph::Graph(size_t num_nodes, uint32_t entry, std::vector<GraphLevel> levels)
    : num_nodes_(num_nodes), entry_(entry), levels_(std::move(levels)) {
  if (levels_.empty() || entry >= num_nodes || levels_.front().nodes.size() != num_nodes) {
    corrupt("a graph of %zu nodes and %zu levels that begins at node %u", num_nodes, levels_.size(), entry);
  }
  for (size_t number = 0; number < levels_.size(); ++number) {
    const GraphLevel& level = levels_[number];
    if (level.starts.size() != level.nodes.size() + 1 || level.starts.front() != 0 ||
        level.starts.back() != level.neighbors.size() || !std::is_sorted(level.starts.begin(), level.starts.end())) {
      corrupt("neighbours of the nodes on level %zu of a graph", number);
    }
    for (size_t i = 0; i < level.nodes.size(); ++i) {
      if (level.nodes[i] >= num_nodes || (i > 0 && level.nodes[i] <= level.nodes[i - 1])) {
        corrupt("node %u of %zu on level %zu of a graph", level.nodes[i], num_nodes, number);
      }
    }
    for (uint32_t node : level.neighbors) {
      if (node >= num_nodes) {
        corrupt("neighbour %u of %zu nodes on level %zu of a graph", node, num_nodes, number);
      }
    }
  }
}

size_t Graph::num_bytes() const {
  size_t numbers = 0;
  for (const GraphLevel& level : levels_) numbers += level.nodes.size() + level.starts.size() + level.neighbors.size();
  return numbers * sizeof(uint32_t);
}

void Graph::search(BestRows& best, const CodedRows& rows, size_t width, const StoredVectors& vectors) const {
  if (rows.allowed != nullptr) {
    size_t num_allowed = num_nodes_ - static_cast<size_t>(std::count(rows.allowed, rows.allowed + num_nodes_, 0));
    if (num_allowed * kFewAllowed < num_nodes_) {
      for (size_t row = 0; row < num_nodes_; ++row) {
        if (rows.allowed[row] != 0) best.offer(vectors.distance(row), rows.keys[row]);
      }
      return;
    }
  }
  auto nodes_on = [this](size_t number) {
    return [&level = levels_[number]](uint32_t node) -> Nodes {
      auto found = std::lower_bound(level.nodes.begin(), level.nodes.end(), node);
      if (found == level.nodes.end() || *found != node) return {};
      size_t place = static_cast<size_t>(found - level.nodes.begin());
      return {level.neighbors.data() + level.starts[place], level.neighbors.data() + level.starts[place + 1]};
    };
  };
  auto nodes_below = [&level = levels_.front()](uint32_t node) -> Nodes {
    return {level.neighbors.data() + level.starts[node], level.neighbors.data() + level.starts[node + 1]};
  };
  Candidate at{vectors.distance(entry_), entry_};
  for (size_t number = levels_.size(); number-- > 1;) at = descend<LowestFirst>(at, vectors, nodes_on(number));
  Seen seen(num_nodes_);
  // Nodes below the lower bound must not fill the beam: those within the bounds are behind them.
  auto may_be_best = [&](const Candidate& next) {
    return next.distance >= best.lower() && (rows.allowed == nullptr || rows.allowed[next.node] != 0);
  };
  for (const Candidate& found : walk<LowestFirst>(at, width, vectors, seen, nodes_below, may_be_best)) {
    best.offer(found.distance, rows.keys[found.node]);
  }
}

Graph build_graph(ComparableVectors& vectors, size_t num_vectors, const GraphOptions& options) {
  if (num_vectors == 0 || options.max_levels == 0 || options.max_neighbors == 0 || options.beam_width == 0) {
    corrupt("a graph of no vectors, levels or neighbours");
  }
  GrowingGraph graph(vectors, num_vectors, options);
  for (size_t node = 0; node < num_vectors; ++node) graph.insert(static_cast<uint32_t>(node));
  return graph.finish();
}

}  // namespace lance
