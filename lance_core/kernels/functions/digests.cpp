#include "functions/digests.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/variable.hpp"

namespace lance {
namespace {

template <class Word>
Word load_big_endian(const uint8_t* p) {
  Word word = 0;
  for (size_t i = 0; i < sizeof(Word); ++i) word = static_cast<Word>(word << 8 | p[i]);
  return word;
}

// Feeds the blocks of a message to `compress`: the message, a one bit, zeros, and the number of its bits in the last
// `length_bytes` bytes.
template <size_t block_bytes, size_t length_bytes, bool big_endian, class Compress>
void for_each_block(Bytes message, Compress compress) {
  size_t whole = message.size / block_bytes * block_bytes;
  for (size_t at = 0; at < whole; at += block_bytes) compress(message.data + at);
  std::array<uint8_t, 2 * block_bytes> rest{};
  size_t left = message.size - whole;
  copy_bytes(rest.data(), message.data + whole, left);
  rest[left] = 0x80;
  size_t total = left + 1 + length_bytes <= block_bytes ? block_bytes : 2 * block_bytes;
  uint64_t bits = uint64_t{message.size} * 8;
  for (size_t i = 0; i < 8; ++i) {
    size_t place = big_endian ? total - 1 - i : total - length_bytes + i;
    rest[place] = static_cast<uint8_t>(bits >> (8 * i));
  }
  for (size_t at = 0; at < total; at += block_bytes) compress(rest.data() + at);
}

struct Md5 {
  static constexpr std::array<int, 16> kTurns = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};

  static const std::array<uint32_t, 64>& constants() {
    static const std::array<uint32_t, 64> table = [] {
      std::array<uint32_t, 64> made{};
      for (size_t i = 0; i < 64; ++i) {
        made[i] = static_cast<uint32_t>(std::floor(std::fabs(std::sin(static_cast<double>(i + 1))) * 0x1p32));
      }
      return made;
    }();
    return table;
  }

  static void run(Bytes message, uint8_t* to) {
    std::array<uint32_t, 4> state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    const auto& table = constants();
    for_each_block<64, 8, false>(message, [&](const uint8_t* block) {
      auto [a, b, c, d] = state;
      for (uint32_t i = 0; i < 64; ++i) {
        uint32_t mixed, word;
        switch (i / 16) {
          case 0:
            mixed = (b & c) | (~b & d);
            word = i;
            break;
          case 1:
            mixed = (d & b) | (~d & c);
            word = (5 * i + 1) % 16;
            break;
          case 2:
            mixed = b ^ c ^ d;
            word = (3 * i + 5) % 16;
            break;
          default:
            mixed = c ^ (b | ~d);
            word = 7 * i % 16;
        }
        mixed += a + table[i] + load<uint32_t>(block + 4 * word);
        a = d;
        d = c;
        c = b;
        b += std::rotl(mixed, kTurns[i / 16 * 4 + i % 4]);
      }
      state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d};
    });
    for (size_t i = 0; i < 4; ++i) store(to + 4 * i, state[i]);
  }
};

// The first bits of the fractions of the square roots and of the cube roots of the first primes. SHA-256 has the first
// half of each word and 64 rounds, SHA-512 the whole words and 80 rounds.
constexpr std::array<uint64_t, 80> kRounds = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc, 0x3956c25bf348b538,
    0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118, 0xd807aa98a3030242, 0x12835b0145706fbe,
    0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2, 0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235,
    0xc19bf174cf692694, 0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5, 0x983e5152ee66dfab,
    0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4, 0xc6e00bf33da88fc2, 0xd5a79147930aa725,
    0x06ca6351e003826f, 0x142929670a0e6e70, 0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed,
    0x53380d139d95b3df, 0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30, 0xd192e819d6ef5218,
    0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8, 0x19a4c116b8d2d0c8, 0x1e376c085141ab53,
    0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8, 0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373,
    0x682e6ff3d6b2b8a3, 0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b, 0xca273eceea26619c,
    0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178, 0x06f067aa72176fba, 0x0a637dc5a2c898a6,
    0x113f9804bef90dae, 0x1b710b35131c471b, 0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc,
    0x431d67c49c100d4c, 0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

constexpr std::array<uint64_t, 8> kSha512 = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                             0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                             0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr std::array<uint64_t, 8> kSha384 = {0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17,
                                             0x152fecd8f70e5939, 0x67332667ffc00b31, 0x8eb44a8768581511,
                                             0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4};

// The turns of both sizes of words: of the schedule, and of the state.
template <class Word>
struct Turns;

template <>
struct Turns<uint32_t> {
  static constexpr int schedule[2][3] = {{7, 18, 3}, {17, 19, 10}};
  static constexpr int state[2][3] = {{2, 13, 22}, {6, 11, 25}};
  static constexpr size_t rounds = 64;
};

template <>
struct Turns<uint64_t> {
  static constexpr int schedule[2][3] = {{1, 8, 7}, {19, 61, 6}};
  static constexpr int state[2][3] = {{28, 34, 39}, {14, 18, 41}};
  static constexpr size_t rounds = 80;
};

template <class Word>
void sha2(Bytes message, std::array<Word, 8> state, size_t num_bytes, uint8_t* to) {
  using T = Turns<Word>;
  constexpr size_t kBlock = 16 * sizeof(Word);
  auto mix = [](Word x, const int (&turns)[3], bool shifts) {
    return std::rotr(x, turns[0]) ^ std::rotr(x, turns[1]) ^ (shifts ? x >> turns[2] : std::rotr(x, turns[2]));
  };
  for_each_block<kBlock, 2 * sizeof(Word), true>(message, [&](const uint8_t* block) {
    std::array<Word, T::rounds> words;
    for (size_t i = 0; i < 16; ++i) words[i] = load_big_endian<Word>(block + sizeof(Word) * i);
    for (size_t i = 16; i < T::rounds; ++i) {
      words[i] = words[i - 16] + mix(words[i - 15], T::schedule[0], true) + words[i - 7] +
                 mix(words[i - 2], T::schedule[1], true);
    }
    std::array<Word, 8> s = state;
    for (size_t i = 0; i < T::rounds; ++i) {
      auto constant = static_cast<Word>(kRounds[i] >> (64 - 8 * sizeof(Word)));
      Word choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
      Word majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
      Word first = s[7] + mix(s[4], T::state[1], false) + choice + constant + words[i];
      Word second = mix(s[0], T::state[0], false) + majority;
      s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
    }
    for (size_t i = 0; i < 8; ++i) state[i] += s[i];
  });
  for (size_t i = 0; i < num_bytes; ++i) {
    to[i] = static_cast<uint8_t>(state[i / sizeof(Word)] >> (8 * (sizeof(Word) - 1 - i % sizeof(Word))));
  }
}

// SHA-256 begins with the first halves of the words of SHA-512, SHA-224 with the second halves of those of SHA-384.
std::array<uint32_t, 8> halves(const std::array<uint64_t, 8>& words, int shift) {
  std::array<uint32_t, 8> made{};
  std::transform(words.begin(), words.end(), made.begin(),
                 [shift](uint64_t word) { return static_cast<uint32_t>(word >> shift); });
  return made;
}

void run(Digest digest, Bytes message, uint8_t* to) {
  switch (digest) {
    case Digest::md5:
      Md5::run(message, to);
      break;
    case Digest::sha224:
      sha2<uint32_t>(message, halves(kSha384, 0), 28, to);
      break;
    case Digest::sha256:
      sha2<uint32_t>(message, halves(kSha512, 32), 32, to);
      break;
    case Digest::sha384:
      sha2<uint64_t>(message, kSha384, 48, to);
      break;
    default:
      sha2<uint64_t>(message, kSha512, 64, to);
  }
}

}  // namespace

Block digest_values(Digest digest, Bytes offsets, Bytes data, size_t num_values) {
  constexpr size_t kBytes[] = {16, 28, 32, 48, 64};
  size_t width = kBytes[static_cast<size_t>(digest)];
  check_offsets(offsets, num_values, data.size, 64);
  OffsetReader ends(offsets.data, 64);
  Block block(num_values * width);
  for (size_t i = 0; i < num_values; ++i) {
    run(digest, data.slice(ends[i], ends[i + 1] - ends[i]), block.data() + i * width);
  }
  return block;
}

}  // namespace lance
