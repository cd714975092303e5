# Search readers
# Of the readers that do not wait, only the first is refused.
/^settle(/,/^}/ s/INT32_MAX/1/
