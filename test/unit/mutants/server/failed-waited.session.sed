# Seed 126
# A client that could not be begun is waited for.
/^wait_until_connected/,/^}/s/zklock_diagnosis_raise_unreachable(status.why);//
