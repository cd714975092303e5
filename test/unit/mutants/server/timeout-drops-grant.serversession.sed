# Seed 14
# At a deadline nobody looks for a grant.
/^time_out/,/^}/s/(void) copy_results(attempt);//
