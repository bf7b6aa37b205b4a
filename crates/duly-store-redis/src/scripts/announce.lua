-- Announces to every node that a namespace has something for consumers in this shard.
--
-- KEYS  seq
-- ARGV  1 namespace
-- reply OK
write('SPUBLISH', K .. 'wake', ARGV[1])
flush()
return { 'OK' }
