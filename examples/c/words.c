/* Counts the words of standard input, and prints those that begin with a prefix, in order, with their counts.
 *
 *   cc words.c $(pkg-config --cflags --libs fanread) -o words
 *   ./words pre < text
 */
#include <ctype.h>
#include <fanread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(fanread_status status) {
  if (status < 0) {
    fprintf(stderr, "words: %s\n", fanread_last_error());
    exit(1);
  }
}

static void count(const fanread_map *words, const char *word, size_t len) {
  uint64_t before;
  /* The first time a word comes it is inserted; after that it is counted. With one thread, that is all. */
  fanread_status status = fanread_map_get(words, word, len, &before);
  must(status);
  must(fanread_map_insert(words, word, len, status == FANREAD_OK ? before + 1 : 1, NULL));
}

int main(int argc, char **argv) {
  const char *prefix = argc > 1 ? argv[1] : "";
  fanread_map *words;
  must(fanread_map_new(FANREAD_ORDERED_MAP, FANREAD_U64_VALUES, NULL, &words));

  char word[256];
  size_t len = 0;
  for (int c; (c = getchar()) != EOF;) {
    if (isalpha(c) && len < sizeof word) {
      word[len++] = (char)tolower(c);
    } else if (len > 0) {
      count(words, word, len);
      len = 0;
    }
  }
  if (len > 0) count(words, word, len);

  fanread_cursor *cursor;
  must(fanread_cursor_new(words, &cursor));
  fanread_status status = fanread_cursor_seek(cursor, FANREAD_AT_OR_ABOVE, prefix, strlen(prefix));
  for (; status == FANREAD_OK; status = fanread_cursor_next(cursor)) {
    fanread_bytes key;
    uint64_t times;
    must(fanread_cursor_key(cursor, &key));
    must(fanread_cursor_value(cursor, &times));
    if (key.len < strlen(prefix) || memcmp(key.data, prefix, strlen(prefix)) != 0) break;
    printf("%6llu %.*s\n", (unsigned long long)times, (int)key.len, (const char *)key.data);
  }
  must(status);
  fanread_cursor_free(cursor);
  fanread_map_free(words);
  return 0;
}
