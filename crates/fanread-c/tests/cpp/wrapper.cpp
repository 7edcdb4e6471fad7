// The wrapper for C++: every class, with all forms of keys and values.
#include <fanread.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <thread>

using namespace std::string_literals;

namespace {

template <class T>
T made(std::uint64_t number);

template <>
std::uint64_t made(std::uint64_t number) {
  return number * 3;
}

template <>
std::string made(std::uint64_t number) {
  std::string bytes(8, '\0');
  for (int i = 7; i >= 0; i--, number >>= 8) bytes[static_cast<std::size_t>(i)] = static_cast<char>(number);
  return bytes;
}

template <class Map>
class MapTest : public testing::Test {
 public:
  using Key = typename Map::key_type;
  using Value = typename Map::mapped_type;
};

using Forms = testing::Types<fanread::map<std::string, std::uint64_t>, fanread::map<std::string, std::string>,
                             fanread::map<std::uint64_t, std::uint64_t>,
                             fanread::map<std::uint64_t, std::string>>;
TYPED_TEST_SUITE(MapTest, Forms, );

const fanread::kind kinds[] = {fanread::kind::ordered_map, fanread::kind::u64_map,
                               fanread::kind::wormhole,    fanread::kind::cuckoo_trie,
                               fanread::kind::mlp_index,   fanread::kind::skip_list};

TYPED_TEST(MapTest, AgreesWithAStdMap) {
  using Key = typename TestFixture::Key;
  using Value = typename TestFixture::Value;
  for (const auto kind : kinds) {
    TypeParam map(kind);
    std::map<Key, Value> model;
    std::mt19937_64 random(42);
    for (int step = 0; step < 4000; step++) {
      const Key key = made<Key>(random() % 500);
      const Value value = made<Value>(random() % 50);
      const auto in_model = model.find(key);
      const auto expected =
          in_model == model.end() ? std::nullopt : std::optional<Value>(in_model->second);
      switch (random() % 8) {
        case 0:
        case 1:
          ASSERT_EQ(map.insert(key, value), expected);
          model.insert_or_assign(key, value);
          break;
        case 2:
          ASSERT_EQ(map.remove(key), expected);
          model.erase(key);
          break;
        case 3:
          ASSERT_EQ(map.replace(key, value), expected);
          if (expected) model[key] = value;
          break;
        case 4:
          ASSERT_EQ(map.get_or_insert(key, value), expected.value_or(value));
          model.try_emplace(key, value);
          break;
        case 5: {
          const auto exchange = map.compare_exchange(key, made<Value>(7), value);
          ASSERT_EQ(exchange.found, expected);
          ASSERT_EQ(exchange.done, expected == made<Value>(7));
          if (exchange) model[key] = value;
          break;
        }
        case 6: {
          const auto from = model.lower_bound(key);
          const auto found = map.lower_bound(key);
          ASSERT_EQ(found.has_value(), from != model.end());
          if (found) {
            ASSERT_EQ(found->key, from->first);
            ASSERT_EQ(found->value, from->second);
          }
          const auto below = map.below(key);
          ASSERT_EQ(below.has_value(), from != model.begin());
          if (below) {
            ASSERT_EQ(below->key, std::prev(from)->first);
          }
          break;
        }
        default:
          ASSERT_EQ(map.get(key), expected);
          ASSERT_EQ(map.contains(key), expected.has_value());
      }
    }
    ASSERT_EQ(map.size(), model.size());
    auto at = model.begin();
    for (const auto [key, value] : map) {
      ASSERT_NE(at, model.end());
      ASSERT_EQ(key, at->first);
      ASSERT_EQ(value, at->second);
      ++at;
    }
    ASSERT_EQ(at, model.end());
    ASSERT_EQ(map.first()->key, model.begin()->first);
    ASSERT_EQ(map.last()->key, model.rbegin()->first);
    map.clear();
    ASSERT_TRUE(map.empty());
    ASSERT_EQ(map.begin(), map.end());
    ASSERT_FALSE(map.first());
  }
}

TYPED_TEST(MapTest, BatchesAreManyCalls) {
  using Key = typename TestFixture::Key;
  using Value = typename TestFixture::Value;
  std::vector<Key> keys, all;
  std::vector<Value> values;
  for (std::uint64_t i = 0; i < 1000; i++) {
    all.push_back(made<Key>(i));
    if (i % 2) continue;
    keys.push_back(made<Key>(i));
    values.push_back(made<Value>(i));
  }
  for (const auto kind : kinds) {
    auto map = TypeParam::from_sorted(keys, values, kind);
    ASSERT_EQ(map.size(), 500u);
    const auto found = map.get_batch(all);
    std::vector<std::uint8_t> is_there(all.size());
    ASSERT_EQ(map.contains_batch(all, is_there), 500u);
    for (std::size_t i = 0; i < all.size(); i++) {
      ASSERT_EQ(found[i].has_value(), i % 2 == 0);
      ASSERT_EQ(is_there[i], i % 2 == 0);
      if (found[i]) {
        ASSERT_EQ(*found[i], values[i / 2]);
      }
    }
    map.clear();
    map.insert_batch(keys, values);
    ASSERT_EQ(map.size(), 500u);
    ASSERT_GT(map.memory_usage().total_bytes, 500u);
    ASSERT_NE(fanread::process_huge_page_bytes(), UINT64_MAX);
    EXPECT_THROW(map.insert_batch(keys, std::vector<Value>(3)), fanread::error);
    EXPECT_THROW(TypeParam::from_sorted(keys, std::vector<Value>(3), kind), fanread::error);
    EXPECT_THROW(TypeParam::from_sorted(std::vector<Key>{keys[1], keys[0]},
                                        std::vector<Value>{values[0], values[1]}, kind),
                 fanread::error);
  }
}

TYPED_TEST(MapTest, RangesAndCursorsKeepTheOrder) {
  using Key = typename TestFixture::Key;
  using Value = typename TestFixture::Value;
  TypeParam map;
  for (std::uint64_t i = 0; i < 100; i++) map.insert(made<Key>(i), made<Value>(i));
  std::uint64_t at = 10;
  for (const auto [key, value] : map.range(made<Key>(10), made<Key>(20))) {
    ASSERT_EQ(key, made<Key>(at));
    ASSERT_EQ(value, made<Value>(at++));
  }
  ASSERT_EQ(at, 20u);
  const auto rest = map.from(made<Key>(90));
  ASSERT_EQ(std::distance(rest.begin(), rest.end()), 10);
  const auto none = map.range(made<Key>(20), made<Key>(10));
  ASSERT_EQ(none.begin(), none.end());

  at = 30;
  map.scan(
      [&](auto key, auto value) {
        EXPECT_EQ(key, made<Key>(at));
        EXPECT_EQ(value, made<Value>(at));
        return ++at < 40;
      },
      made<Key>(30));
  ASSERT_EQ(at, 40u);
  at = 0;
  map.scan([&](auto, auto) { at++; });
  ASSERT_EQ(at, 100u);
  EXPECT_THROW(map.scan([](auto, auto) { throw 7; }), int);

  if constexpr (std::is_same_v<Value, std::uint64_t>) {
    at = 30;
    const auto see = [&](const fanread::chunk<Key> &chunk) {
      for (std::size_t i = 0; i < chunk.size(); i++, at++) {
        EXPECT_EQ(chunk.key(i), made<Key>(at));
        EXPECT_EQ(chunk.value(i), made<Value>(at));
      }
    };
    map.scan_chunks(see, made<Key>(30), 45);
    ASSERT_EQ(at, 75u);
    at = 0;
    map.scan_chunks(see);
    ASSERT_EQ(at, 100u);
    at = 0;
    map.scan_chunks([&](const auto &chunk) { return at += chunk.size(), false; });
    ASSERT_GT(at, 0u);
    ASSERT_LT(at, 100u);
    EXPECT_THROW(map.scan_chunks([](const auto &) { throw 7; }), int);
  }

  auto cursor = map.make_cursor();
  EXPECT_THROW(cursor.key(), fanread::error);
  ASSERT_TRUE(cursor.seek(made<Key>(50)));
  ASSERT_EQ(cursor.key(), made<Key>(50));
  ASSERT_EQ(cursor.value(), made<Value>(50));
  ASSERT_TRUE(cursor.prev());
  ASSERT_EQ(cursor.key(), made<Key>(49));
  cursor.read_ahead(1);
  ASSERT_TRUE(cursor.seek_above(made<Key>(50)));
  ASSERT_EQ(cursor.key(), made<Key>(51));
  ASSERT_TRUE(cursor.seek_below(made<Key>(50)));
  ASSERT_EQ(cursor.key(), made<Key>(49));
  ASSERT_TRUE(cursor.seek_at_or_below(made<Key>(50)));
  ASSERT_EQ(cursor.key(), made<Key>(50));
  ASSERT_TRUE(cursor.seek_last());
  ASSERT_FALSE(cursor.next());
  ASSERT_TRUE(cursor.seek_first());
  ASSERT_EQ(cursor.key(), made<Key>(0));
  ASSERT_FALSE(cursor.prev());
  ASSERT_EQ(map.above(made<Key>(5))->key, made<Key>(6));
  ASSERT_EQ(map.at_or_below(made<Key>(5))->key, made<Key>(5));

  // A moved map is the same map, and a cursor outlives it.
  {
    TypeParam moved = std::move(map);
    ASSERT_EQ(moved.size(), 100u);
  }
  ASSERT_TRUE(cursor.seek(made<Key>(99)));
}

TEST(Numbers, AreLookedUpWithoutCopies) {
  fanread::map<std::uint64_t, std::uint64_t> map("mlp-index"s);
  ASSERT_EQ(map.kind_name(), "mlp-index");
  for (std::uint64_t i = 0; i < 100; i++) map.insert(i, i * i);
  const std::array<std::uint64_t, 4> keys = {9, 100, 3, 0};
  std::array<std::uint64_t, 4> values{};
  std::array<std::uint8_t, 4> found{};
  ASSERT_EQ(map.get_batch(keys, values, found), 3u);
  ASSERT_EQ(values, (std::array<std::uint64_t, 4>{81, 0, 9, 0}));
  ASSERT_EQ(found, (std::array<std::uint8_t, 4>{1, 0, 1, 1}));
  ASSERT_EQ(map.get_batch(keys, values), 3u);
  std::array<std::uint64_t, 3> few{};
  EXPECT_THROW(map.get_batch(keys, few), fanread::error);
}

TEST(Strings, MayBeAnyBytes) {
  fanread::map<std::string, std::string> map;
  const std::string key("a\0b", 3), value("\0\0", 2);
  ASSERT_FALSE(map.insert(key, value));
  ASSERT_FALSE(map.insert("", ""));
  ASSERT_EQ(map.get(key), value);
  ASSERT_EQ(map.get(std::string_view()), "");
  ASSERT_FALSE(map.get("a"));
  const std::vector<std::string_view> keys = {key, "a", ""};
  const auto found = map.get_batch(keys);
  ASSERT_EQ(found[0], value);
  ASSERT_FALSE(found[1]);
  ASSERT_EQ(found[2], "");
}

TEST(Errors, SayWhatWentWrong) {
  fanread::map<std::string, std::uint64_t> map;
  try {
    map.insert(std::string(70000, 'k'), 1);
    FAIL();
  } catch (const fanread::error &error) {
    ASSERT_EQ(error.status(), FANREAD_TOO_LONG);
    ASSERT_NE(std::string(error.what()).find("70000"), std::string::npos);
  }
  EXPECT_THROW((fanread::map<>("no such map"s)), fanread::error);
  EXPECT_THROW(fanread::kind_of_name("none"), fanread::error);
  ASSERT_EQ(fanread::kind_of_name("wormhole"), fanread::kind::wormhole);
  EXPECT_THROW(fanread::table("no such file"), fanread::error);
  EXPECT_THROW(fanread::store::open("no such file"), fanread::error);
  ASSERT_EQ(std::string(fanread::error(FANREAD_IO, "").what()), fanread_status_message(FANREAD_IO));
  ASSERT_FALSE(fanread::version().empty());
}

TEST(Threads, ShareAMap) {
  fanread::map<std::uint64_t, std::uint64_t> map;
  std::vector<std::thread> threads;
  for (std::uint64_t me = 0; me < 4; me++)
    threads.emplace_back([&map, me] {
      for (std::uint64_t i = 0; i < 2000; i++) map.insert(i * 4 + me, me);
    });
  for (auto &thread : threads) thread.join();
  ASSERT_EQ(map.size(), 8000u);
  std::uint64_t next = 0;
  for (const auto [key, value] : map) {
    ASSERT_EQ(key, next++);
    ASSERT_EQ(value, key % 4);
  }
}

TEST(Pins, AreOfTheirThreadAndMove) {
  static_assert(!std::is_copy_constructible_v<fanread::pin> && !std::is_copy_assignable_v<fanread::pin>);
  fanread::map<std::uint64_t, std::string> map;
  fanread::pin pin;
  const auto held = map.under(pin);
  for (std::uint64_t i = 0; i < 1000; i++) {
    if (i % 256 == 255) pin.repin();
    map.insert(i, "old");
    ASSERT_EQ(map.insert(i, "new"), "old");
    ASSERT_EQ(held.get(i), "new");
    ASSERT_TRUE(held.contains(i));
    ASSERT_FALSE(held.get(i + 1));
  }
  fanread::pin moved = std::move(pin);
  moved.repin();
  EXPECT_THROW(pin.repin(), fanread::error);
  EXPECT_EQ(held.get(999), "new");
  EXPECT_THROW(map.under(pin), fanread::error);
  fanread::pin another;
  moved = std::move(another);
  moved.repin();
  EXPECT_EQ(map.under(moved).get(999), "new");
  std::thread([&] {
    EXPECT_THROW(moved.repin(), fanread::error);
    fanread::pin own;
    EXPECT_EQ(map.get(999), "new");
    own.repin();
  }).join();
  moved.repin();
}

TEST(Tables, AreBuiltAndScanned) {
  const std::string path = "wrapper.tmp";
  fanread::table_builder builder;
  for (std::uint64_t i = 0; i < 300; i++) builder.insert(made<std::string>(i), std::to_string(100 + i));
  ASSERT_EQ(builder.size(), 300u);
  builder.finish(path);
  const fanread::table table(path);
  std::remove(path.c_str());
  table.check();
  ASSERT_EQ(table.stats().entries, 300u);
  ASSERT_EQ(table.get(made<std::string>(7)), "107");
  ASSERT_FALSE(table.get("7"));
  const auto found = table.get_batch(std::vector<std::string>{made<std::string>(300), made<std::string>(5)});
  ASSERT_FALSE(found[0]);
  ASSERT_EQ(found[1], "105");
  std::uint64_t at = 0;
  table.scan([&](std::string_view key, std::string_view) { ASSERT_EQ(key, made<std::string>(at++)); });
  ASSERT_EQ(at, 300u);
  at = 10;
  table.scan(
      [&](std::string_view key, std::string_view) {
        EXPECT_EQ(key, made<std::string>(at));
        return ++at < 15;
      },
      made<std::string>(10), made<std::string>(20));
  ASSERT_EQ(at, 15u);
  EXPECT_THROW(table.scan([](std::string_view, std::string_view) { throw std::range_error("mine"); }),
               std::range_error);
}

TEST(Stores, OutliveTheirHandle) {
  const std::string path = "wrapper.tmp";
  std::remove(path.c_str());
  {
    auto store = fanread::store::create(path);
    ASSERT_FALSE(store.insert("kiwi", "green"));
    ASSERT_EQ(store.insert("kiwi", "brown"), "green");
    ASSERT_FALSE(store.insert("plum", ""));
    store.sync();
    EXPECT_THROW(fanread::store::open(path), fanread::error);
    ASSERT_GE(store.durability(), FANREAD_SURVIVES_PROCESS);
  }
  auto store = fanread::store::open(path);
  store.check();
  ASSERT_EQ(store.get("kiwi"), "brown");
  const auto found = store.get_batch(std::vector<std::string>{"pear", "plum"});
  ASSERT_FALSE(found[0]);
  ASSERT_EQ(found[1], "");
  ASSERT_EQ(store.size(), 2u);
  std::map<std::string, std::string> all;
  store.scan([&](std::string_view key, std::string_view value) { all.emplace(key, value); });
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THROW(store.scan([](std::string_view, std::string_view) { throw 7; }), int);
  ASSERT_EQ(store.remove("kiwi"), "brown");
  ASSERT_FALSE(store.remove("kiwi"));
  std::remove(path.c_str());

  auto memory = fanread::store::in_memory();
  ASSERT_EQ(memory.durability(), FANREAD_SURVIVES_NOTHING);
  ASSERT_FALSE(memory.get("kiwi"));
}

TEST(Stores, OfNumbers) {
  const std::string path = "wrapper.tmp";
  std::remove(path.c_str());
  {
    auto store = fanread::u64_store::create(path);
    for (std::uint64_t i = 0; i < 100; i++) ASSERT_FALSE(store.insert(i, i + 1));
    ASSERT_EQ(store.insert(5, 50), 6u);
    ASSERT_EQ(store.remove(6), 7u);
    ASSERT_FALSE(store.remove(6));
    store.sync();
  }
  auto store = fanread::u64_store::open(path);
  store.check();
  ASSERT_EQ(store.size(), 99u);
  ASSERT_EQ(store.get(5), 50u);
  ASSERT_FALSE(store.get(6));
  const std::vector<std::uint64_t> keys = {5, 6, 7};
  std::vector<std::uint64_t> values(3);
  std::vector<std::uint8_t> found(3);
  ASSERT_EQ(store.get_batch(keys, values, found), 2u);
  ASSERT_EQ(values, (std::vector<std::uint64_t>{50, 0, 8}));
  std::size_t seen = 0;
  store.scan([&](std::uint64_t, std::uint64_t) { return ++seen < 10; });
  ASSERT_EQ(seen, 10u);
  ASSERT_EQ(store.durability() >= FANREAD_SURVIVES_PROCESS, true);
  std::remove(path.c_str());
  ASSERT_EQ(fanread::u64_store::in_memory().size(), 0u);
}

}  // namespace
