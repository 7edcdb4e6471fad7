// Trades by time: numbers as keys, lookups in batches, and what happened between two moments. Then the same in a file.
//
//   c++ -std=c++17 trades.cpp $(pkg-config --cflags --libs fanread) -o trades
#include <cstdint>
#include <cstdio>
#include <fanread.hpp>
#include <string>
#include <vector>

namespace {

// A trade every 1 to 16 ms, of some cents.
struct Feed {
  std::uint64_t now = 1'700'000'000'000, random = 42;

  std::uint64_t draw() {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random;
  }

  std::pair<std::uint64_t, std::uint64_t> next() {
    now += 1 + draw() % 16;
    return {now, 10'000 + draw() % 500};
  }
};

}  // namespace

int main() try {
  std::vector<std::uint64_t> times, cents;
  Feed feed;
  for (int i = 0; i < 100'000; i++) {
    const auto [time, price] = feed.next();
    times.push_back(time);
    cents.push_back(price);
  }
  // Sorted already: built at once. What comes later is inserted.
  auto trades = fanread::map<std::uint64_t, std::uint64_t>::from_sorted(times, cents);
  const auto [late, price] = feed.next();
  trades.insert(late, price);
  std::printf("%zu trades, %s\n", trades.size(), std::string(trades.kind_name()).c_str());

  // The highest price of one second.
  const std::uint64_t start = times[50'000];
  std::uint64_t highest = 0, count = 0;
  for (const auto [time, value] : trades.range(start, start + 1'000)) {
    if (value > highest) highest = value;
    count++;
  }
  std::printf("%llu trades in a second, %llu.%02llu at most\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(highest / 100),
              static_cast<unsigned long long>(highest % 100));

  // The last trade at a moment or before it.
  if (const auto last = trades.at_or_below(start + 500)) {
    std::printf("the last one half a second later was %llu ms before\n",
                static_cast<unsigned long long>(start + 500 - last->key));
  }

  // Many moments at once: which of them had a trade?
  std::vector<std::uint64_t> moments, values(1'000);
  for (std::uint64_t i = 0; i < 1'000; i++) moments.push_back(start + i);
  std::printf("%zu of 1000 moments had a trade\n", trades.get_batch(moments, values));

  // Names of the day's files, kept in one that outlives the process.
  const std::string path = "trades.tmp";
  std::remove(path.c_str());
  {
    auto files = fanread::store::create(path);
    files.insert("2023-11-14", "trades-0.bin");
    files.sync();
  }
  const auto files = fanread::store::open(path);
  std::printf("2023-11-14 is in %s\n", files.get("2023-11-14").value_or("no file").c_str());
  std::remove(path.c_str());
  return 0;
} catch (const fanread::error &error) {
  std::fprintf(stderr, "trades: %s\n", error.what());
  return 1;
}
