"""Stop words: words too common in a language to tell one memory from another.

They are listed as `terms` divides a text, so "don't" stands as "don" and "t", and "l'avion" begins
with "l".
"""

_DUTCH = """
aan al als bij dan dat de der deze die dit doen door dus een en er geen had hadden heb hebben
heeft het hier hij hoe hun ik in is je jij jou jouw kan kon maar me mee meer men met mij mijn na
naar niet nog nu of om onder ons onze ook op over te tegen toch toen tot u uit uw van veel voor
waar waarom wanneer waren was wat we wel welke werd wie wij word wordt zal ze zei zich zij zijn zo
zonder zou
"""

_ENGLISH = """
a about above after again against all also am an and any are aren as at be because been before
being below between both but by can could couldn d did didn do does doesn doing don down during
each even few for from further had hadn has hasn have haven having he her here hers herself him
himself his how i if in into is isn it its itself just ll m many may me might more most much must
my myself no nor not now of off on once only or other our ours ourselves out over own re s same
shall she should shouldn so some such t than that the their theirs them themselves then there
these they this those through to too under until up upon us ve very was wasn we were weren what
when where which while who whom whose why will with would wouldn you your yours yourself
yourselves
"""

_FRENCH = """
ai as au aux avec avez avons c ce ces cet cette d dans de des du elle elles en est et eu eux il
ils j je l la le les leur leurs lui m ma mais me mes moi mon n ne nos notre nous on ont ou où par
pas pour qu quand que quel quelle quelles quels qui quoi s sa se ses si son sont suis sur t ta te
tes toi ton tu un une vos votre vous y à étaient était été être
"""

_GERMAN = """
aber als am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den der des
dessen die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen
einer eines er es euch euer für habe haben hat hatte hatten hier hin ich ihm ihn ihnen ihr ihre im
in ins ist ja kann kein keine mein meine mich mir mit nach nicht noch nun nur ob oder ohne sehr
sein seine seinem seinen seiner seit sich sie sind so um und uns unser unter vom von vor wann war
waren warum was weil welche welchem welchen welcher welches wem wen wenn wer werden wie wir wird
wo worden wurde wurden zu zum zur über
"""

_ITALIAN = """
a ad ai al alla alle allo anche c che chi ci come con cosa da dal dalla dalle dei del della delle
dello di dove e ed era erano essere gli ha hai hanno ho i il in io l la le lei li lo loro lui ma
mi mia mie miei mio ne negli nei nel nella nelle noi non nostra nostro o per perché più quale
quali quando quanto quella quelle quelli quello questa queste questi questo se sei si sia siamo
sono sta su sua sue sugli sui sul sulla suo suoi ti tra tu tua tuo un una uno vi voi è
"""

_PORTUGUESE = """
a ao aos as com como da das de dela dele deles do dos e ela elas ele eles em entre era eram essa
esse esta este está eu foi foram há isso isto já lhe mais mas me meu meus minha minhas muito na
nas nem no nos nossa nosso num numa não nós o onde os ou para pela pelas pelo pelos por porque
quais qual quando que quem se sem ser seu seus sua suas são só também te tem tinha tu tua um uma
você vocês à às é
"""

_SPANISH = """
a al algo ante antes como con cual cuales cuando cuál cuáles cuándo cuánto cómo de del desde donde
dónde e el ella ellas ellos en entre era eran es esa ese eso esta estas este esto estos está están
fue fueron ha había han has hasta hay he la las le les lo los me mi mis mucho muy más mí nada ni
no nos nosotros o os otra otro para pero poco por porque que quien quién quiénes qué se sea ser si
sin sobre son soy su sus sí también tanto te tu tus tú un una uno unos y ya yo él
"""

_ASKING = {
    "dutch": """
alles herinner herinnert herinneren herinnering herinneringen notities onthouden weet weten
""",
    "english": """
anything everything know known memories memory notes recall remember remembered tell told
""",
    "french": """
connais connaissez mémoire notes rappelles rappelez retiens retenu sais savez souvenir souvenirs
souviens souvenez tout
""",
    "german": """
alles dich erinnern erinnere erinnerst erinnerung erinnerungen gemerkt hast kannst merken notizen
weißt wissen woran
""",
    "italian": """
conosci me memoria note ricordi ricorda ricordo ricordare sai sapere te tutto
""",
    "portuguese": """
lembra lembras lembrar lembranças memória memórias notas sabe sabes saber tudo
""",
    "spanish": """
acordarte acuerdas memoria notas recordar recuerda recuerdas recuerdos sabe sabes saber todo
""",
}

ASKING_WORDS = {language: frozenset(words.split()) for language, words in _ASKING.items()}
"""Words per language that ask for memories, and name none: a question of them is an open one."""

STOP_WORDS: dict[str, frozenset[str]] = {
    "dutch": frozenset(_DUTCH.split()),
    "english": frozenset(_ENGLISH.split()),
    "french": frozenset(_FRENCH.split()),
    "german": frozenset(_GERMAN.split()),
    "italian": frozenset(_ITALIAN.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "spanish": frozenset(_SPANISH.split()),
}
"""The stop words per language; a language that is not listed has none."""
