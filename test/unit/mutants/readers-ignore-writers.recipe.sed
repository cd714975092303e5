# A reader conflicts with nobody.
s/(kind->reader && mine->reader)/(kind->reader || mine->reader)/
