# Marks are not kept apart, so that many writes leave no old one.
s/^#define PART_APART .*/#define PART_APART 100000/
