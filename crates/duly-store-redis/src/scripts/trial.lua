-- Writes a key that nobody reads and that ends at once, to find out if the server carries out changes.
--
-- KEYS  seq
-- ARGV
-- reply 'OK'
write('SET', K .. 'trial', '', 'PX', '1')
flush()
return 'OK'
