(function(){var rows=JSON.parse(document.getElementById('rows').textContent);
var origin=document.getElementById('origin'),words=document.getElementById('words');
function show(){words.textContent='Released as '+rows[origin.selectedIndex].join('; ')+'.';}
origin.addEventListener('input',show);show();})();
