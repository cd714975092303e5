# Writers without a record are ignored.
/^add_unnamed(/,/^}/ s/(kind->reader)/(!kind->reader)/
