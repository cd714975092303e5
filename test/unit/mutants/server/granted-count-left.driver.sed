# Seed 56
# Who gets a lease leaves the watch on the count until the lease is released.
/^feed(/,/^}/s/unwatch_count(driver);//
